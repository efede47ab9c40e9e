// Runs one program on a server with the TypeScript client, and prints the outcome's status or the error.
const [client, url] = process.argv.slice(2);
const { Paddock } = await import(client);
try {
  console.log((await new Paddock({ url }).execute({ language: "javascript", code: "return 1" })).status);
} catch (error) {
  console.log(`${error.name}: ${error.message.replaceAll(url, "SERVER")}`);
}
