"""The record of studies: what a storage promises, and studies in SQLite or PostgreSQL. It knows nothing of policies."""
