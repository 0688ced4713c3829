"""Conversion to and from JSON: values, blocks, events, and the dicts of OpenAI's wire format."""
