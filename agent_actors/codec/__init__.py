"""The JSON edge: values to and from JSON, JSON Schema, events and the dicts of OpenAI's wire."""
