"""Building blocks of actors: requests, actor loops, mailboxes, limiters, locks and timers."""
