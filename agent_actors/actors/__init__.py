"""The long-lived actors of a runtime, and the contract that each of them keeps.

1. Callers use typed methods only. A method that need not wait returns synchronously from the
   actor's state (`*_nowait`, `statistics`). The mailbox is for callers that wait.
2. The receive loop never runs user code, never blocks and never limits concurrency. Each request
   gets one worker task and one reply. Workers wait on limiters. A worker starts in the context of
   its caller.
3. A reply cannot fail. Resolving a request is synchronous and ignores a caller that has left. The
   `finally` block of the worker always resolves the request. A crash of the loop resolves every
   queued and pending request.
4. Cancellation is structured across the mailbox. A cancelled caller withdraws a request that no
   worker has taken. Otherwise it cancels the worker and continues only when the worker has ended.
   A value that was reached is returned even then, and there is no checkpoint between a grant and
   its `try` or `with`.
5. The exception of a request goes to its caller. An exception that leaves an actor's own loop is a
   bug of this package: the runtime stops with `ActorCrashed`.
6. A runtime closes from the runs inward; an actor outlives all of its possible callers.
7. A run knows its ancestors: a call lends its slots while it waits for a child run, and a session
   that an ancestor holds is busy under every policy. Channels are bounded.
8. Every actor has `statistics()`; every mailbox reports its depth and peak.

SessionLog is the declared exception to "one worker per request". Abandoned threads are the declared
exception to "the worker has ended".
"""
