"""The connections to servers of remote tools."""
