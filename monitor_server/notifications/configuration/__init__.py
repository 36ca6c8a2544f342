"""The file of channels and routes: its contents, and how it is read, saved and put into force."""
