"""Tools for agent frameworks: each module is one framework's own class, over a session of Paddock.

    framework   ->  langchain, pydantic_ai, openai_agents, llama_index, smolagents, autogen
                        |   the framework's class; translates arguments and answers, nothing else
                    tool_session      opens the interpreter at the first call, closes it, restarts it
                        |
                    answer            an Outcome as text for a model, with images and files

Each framework is a separate extra, and only its module imports it.
"""
