"""The command line, one file a command; torch is imported inside the commands, so that help answers at once."""
