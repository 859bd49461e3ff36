"""The double where: an operand masked with the condition of the selection."""
