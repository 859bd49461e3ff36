"""A file to its report, many files to a result: processes, the cache."""
