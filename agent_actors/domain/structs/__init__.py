"""Value classes that are declared with attrs and built as msgspec Structs."""
