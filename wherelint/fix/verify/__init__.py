"""A rewrite is verified: what it computes is compared with what the author wrote, and searched again."""
