"""The long-lived actors of a runtime, and the contract that all of them follow.

1. Callers only use typed methods. A method that never has to wait (`*_nowait`, `statistics`) is
   synchronous and reads the actor's state directly. The mailbox is for calls that may have to wait.
2. The receive loop never runs user code, never blocks and never limits concurrency. Each request
   gets one worker task and one reply. Only workers wait on limiters. A worker runs in the context
   of its caller.
3. A reply cannot fail. Resolving a request is synchronous, even if the caller has left. The
   `finally` block of the worker always resolves the request. If the loop crashes, every queued and
   pending request is resolved.
4. Cancellation is structured across the mailbox. A cancelled caller withdraws its request if no
   worker has taken it. Otherwise the caller cancels the worker, and continues only once the worker
   has ended. If the worker still produced a value, that value is returned. A
   grant and its `try` or `with` must not be separated by a checkpoint.
5. An exception that a request raises goes to its caller. An exception that escapes an actor's own
   loop is a bug in this package, so the runtime stops with `ActorCrashed`.
6. A runtime closes its runs first and its actors afterwards, so an actor outlives all of its
   possible callers.
7. A run knows its ancestors. A call lends its slots while it waits for a child run, and a session
   that an ancestor holds is busy under every policy. All channels are bounded.
8. Every actor has `statistics()`; every mailbox reports its depth and peak.

There are two deliberate exceptions: SessionLog does not use one worker per request, and an
abandoned thread may outlive its worker.
"""
