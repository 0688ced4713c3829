"""The long-lived actors of a runtime, and the contract that each of them keeps.

1. Typed methods are the only way in. What needs no waiting is answered synchronously over the
   actor's state (`*_nowait`, `statistics`); the mailbox is how one waits.
2. The receive loop never runs user code, never blocks and never limits: one request, one worker
   task, one reply; workers wait on limiters. A worker starts in its asker's context.
3. A reply cannot fail. Resolving it is synchronous and ignores an asker that has gone; the
   worker's `finally` always resolves it; a crash of the loop resolves every queued and pending one.
4. Structured across the mailbox. A cancelled asker withdraws a request that nobody took; else it
   cancels the worker and goes on only when that has ended. A value that was reached is returned
   even then, and nothing checkpoints between a grant and its `try` or `with`.
5. A request's exception goes to its asker. One that escapes an actor's own loop is our bug: the
   runtime stops with `ActorCrashed`.
6. Closing goes from the runs inward; an actor outlives whoever may still ask it.
7. A run knows its ancestors: a call lends its slots while it waits for a child run, and a session
   that an ancestor holds is busy under every policy. Channels are bounded.
8. Every actor has `statistics()`; every mailbox reports its depth and peak.

SessionLog is the stated exception to "one worker a request"; abandoned threads are the stated
exception to "ended".
"""
