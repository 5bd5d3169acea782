"""The command line: one small file per verb, loaded only when it is used."""
