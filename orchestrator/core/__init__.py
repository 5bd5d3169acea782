"""Ground floor: errors, canonical bytes, strict JSON, confined files, clock. Knows nothing of trials."""
