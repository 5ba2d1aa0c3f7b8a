"""What a verdict looks like to a person or another tool: text, never written anywhere from here."""
