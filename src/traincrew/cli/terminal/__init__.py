"""Jobs on a terminal: watch events and lines of logs in, lines of text and a block of rows out.

Draws the view model of `traincrew.cli.jobview`; nothing here communicates with a cluster.
"""
