"""The supervisor: a service under a user of its own that answers the gate. Nothing but the command line imports it."""
