"""The schema of all clients' tables, agreed from what each reports of its columns."""
