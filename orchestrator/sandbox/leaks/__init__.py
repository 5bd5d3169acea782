"""The leak scan: which strings must not be seen, in which encoded forms, and the search for them. Knows no engine."""
