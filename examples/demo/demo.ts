// Reads the recent history of a repository through one MCP server and its name through a second, and stores the result
// in a third. It may make only four kinds of call, which paddock.toml in this directory lists.

interface Input {
  readonly repository: string;
  readonly commits: number;
}

interface Commit {
  readonly sha: string;
  readonly author: string;
  readonly subject: string;
}

interface Area {
  readonly name: string;
  readonly kind: Kind;
  commits: number;
}

interface Graph {
  readonly entities: readonly { readonly name: string; readonly entityType: string; readonly observations: string[] }[];
  readonly relations: readonly { readonly from: string; readonly to: string; readonly relationType: string }[];
}

enum Kind {
  Source = "source",
  Tests = "tests",
  Documentation = "documentation",
  Project = "project",
}

declare const input: Input;
declare const servers: Record<string, Record<string, (args: object) => Promise<any>>>;

const repo_path = input.repository;

function kindOf(area: string): Kind {
  if (area === "src/") return Kind.Source;
  if (area === "tests/") return Kind.Tests;
  return area === "docs/" || area.endsWith(".md") ? Kind.Documentation : Kind.Project;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

async function recentCommits(): Promise<Commit[]> {
  const log: string = await servers.git.git_log({ repo_path, max_count: input.commits });
  const entry = /^Commit: ([0-9a-f]{40})\nAuthor: (.*)\nDate: .*\nMessage: (.*)/gm;
  return [...log.matchAll(entry)].map(([, sha, author, subject]) => ({ sha, author, subject }));
}

/** Top-level files and directories that a commit changed; all of them if a shallow clone lacks the commit's parent. */
async function areasOf({ sha }: Commit): Promise<Set<string>> {
  try {
    const patch: string = await servers.git.git_show({ repo_path, revision: sha });
    const paths = [...patch.matchAll(/^(?:---|\+\+\+) [ab]\/(.+)$/gm)].map(([, path]) => path);
    return new Set(paths.map((path) => path.replace(/\/.*/, "/")));
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "ToolError") throw error;
    const tree: string = await servers.git.git_show({ repo_path, revision: `${sha}^{tree}` });
    return new Set(tree.split("\n"));
  }
}

function rank(changes: readonly Set<string>[]): Area[] {
  const areas = new Map<string, Area>();
  for (const name of changes.flatMap((change) => [...change])) {
    const area = areas.get(name) ?? { name, kind: kindOf(name), commits: 0 };
    area.commits += 1;
    areas.set(name, area);
  }
  return [...areas.values()].sort((a, b) => b.commits - a.commits || (a.name < b.name ? -1 : 1));
}

async function projectName(): Promise<string> {
  const { content } = await servers.files.read_text_file({ path: `${repo_path}/pyproject.toml` });
  const value = (key: string) => new RegExp(`^${key} = "(.+)"$`, "m").exec(content)?.[1];
  return [value("name"), value("version")].filter(Boolean).join(" "); // a version may stand elsewhere
}

async function remember(project: string, areas: readonly Area[]): Promise<Graph> {
  await servers.memory.create_entities({
    entities: [
      { name: project, entityType: "project", observations: [] },
      ...areas.map(({ name, kind, commits }) => ({
        name,
        entityType: kind,
        observations: [`changed in ${counted(commits, "commit")}`],
      })),
    ],
  });
  await servers.memory.create_relations({
    relations: areas.map(({ name }) => ({ from: name, to: project, relationType: "is part of" })),
  });
  return servers.memory.read_graph({});
}

/** The error of a call that policy denies. */
async function refusal(): Promise<string> {
  try {
    await servers.files.write_file({ path: `${repo_path}/pyproject.toml`, content: "" });
    return "not refused";
  } catch (error) {
    return (error as Error).message;
  }
}

const [project, commits] = await Promise.all([projectName(), recentCommits()]);
console.log(`${project}: ${counted(commits.length, "commit")}, the last one is "${commits[0].subject}"`);

const areas = rank(await Promise.all(commits.map(areasOf)));
for (const area of areas.slice(0, 5)) console.log(`${String(area.commits).padStart(4)}  ${area.name}`);

const graph = await remember(project, areas.slice(0, 5));

return {
  project,
  commits: commits.length,
  authors: new Set(commits.map(({ author }) => author)).size,
  areas: areas.length,
  remembered: graph.entities.map(({ name, entityType, observations }) => [name, entityType, ...observations].join(": ")),
  relations: graph.relations.length,
  refused: await refusal(),
};
