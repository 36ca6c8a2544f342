"""Delivers messages: webhooks, and Apprise in a process of its own."""
