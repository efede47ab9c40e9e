"""Batches on a Ray cluster: `Paddock.map(programs, engine="ray")`, an executor, and a class for Ray Data.

    programs -> feed: reads ahead; purity: policy and effects -> driver: shares -> Ray task -> worker: one Paddock
                                            frames: JSON as values <-------/

Only programs without effects are sent, because Ray repeats a task whose worker or node died. What crosses Ray is JSON:
no object of a program is ever unpickled, and answers are checked like those of a server. Nothing here schedules: Ray
chooses nodes, and its retries replace dead workers.

Ray is imported when it is used. Paddock never starts a cluster: the caller has connected to one with `ray.init`.

`driver` is the heart: `client/batches` enters there, also for `ray_executor`. `dataset` opens a Paddock in each
actor. `purity` and `nodes` are what they ask.
"""
