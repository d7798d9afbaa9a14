"""The machinery: processes, samples, agreement, tables."""
