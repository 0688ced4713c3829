"""The records and events of one run: the journal and the reader's mailbox."""
