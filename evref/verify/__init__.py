"""Is it right? Checks that an outsider can run on ours and on their own."""
