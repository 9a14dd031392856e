"""The page of `traincrew ui`: jobs of any cluster in a browser on this machine.

Called by `commands.ui` and `commands.run`. `listfeed` and `jobfeed` watch the cluster and keep what
is to be shown; `streams` sends it to a browser as it changes; `server` has the routes, `access`
decides who may use them. What is shown is the view model of `jobview`, so that page and terminal
cannot contradict each other. The page itself is in `static`: plain modules, nothing is downloaded.
"""
