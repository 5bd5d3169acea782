"""Memory conditions: from raw history to ranked items, and the one read-side template that all share."""
