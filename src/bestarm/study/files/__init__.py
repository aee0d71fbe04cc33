"""Results in files: sheets to fill in, import, export, reports, and backups of whole studies."""
