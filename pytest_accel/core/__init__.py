"""The nouns, and small mechanisms that know no room. Imported by every process."""
