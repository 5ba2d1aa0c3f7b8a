"""The offline page of a run: its data, and the HTML that holds it. Text in, text out; the command line
reads the template and writes the file."""
