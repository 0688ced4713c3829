"""What a session is: the fold of its records. Pure; who stores and who runs is not known here."""
