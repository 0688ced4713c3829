"""`agent-actors sessions`: what a store keeps, looked at, copied, taken back and checked."""
