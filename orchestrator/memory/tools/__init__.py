"""Memory as tools: a frozen store served over the Model Context Protocol, and the check that its tools must pass."""
