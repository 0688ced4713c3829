"""Model calls of one run: attempts, budget, usage and structured output."""
