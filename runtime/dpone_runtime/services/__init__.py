"""The use cases: open a campaign, run its chunks, tell its state. They name no database, process or library."""
