"""What a file says, without its meaning: syntax, names, imports, and the functions that may hold a finding."""
