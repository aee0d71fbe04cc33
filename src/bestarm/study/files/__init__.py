"""Results in files: sheets to fill in, import, export, and backups of whole studies."""
