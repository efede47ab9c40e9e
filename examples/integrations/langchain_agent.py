"""An agent of LangGraph that reads a CSV file with Python. A script replaces the model."""

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from paddock.integrations.langchain import PaddockTool

PROGRAMS = [
    "import csv; rows = list(csv.DictReader(open('visits.csv')))",
    "sum(int(row['visits']) for row in rows)",
]
CALLS = [{"name": "run_python", "args": {"code": code}, "id": code} for code in PROGRAMS]
REPLIES = [*(AIMessage("", tool_calls=[call]) for call in CALLS), AIMessage("There were 8 visits.")]

with PaddockTool(files={"visits.csv": "city,visits\nOslo,3\nRome,5\n"}) as tool:
    model = GenericFakeChatModel(messages=iter(REPLIES))  # a real one: model.bind_tools([tool])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([tool]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    for message in graph.compile().invoke({"messages": [("user", "How many visits?")]})["messages"]:
        if message.text:
            print(f"{message.type}: {message.text}")
