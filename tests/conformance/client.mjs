// The TypeScript SDK as a client of ours: `node client.mjs URL|COMMAND…` prints what it was told, as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.PACKAGES + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const sdk = await load("@modelcontextprotocol/client");
const { Client, StreamableHTTPClientTransport } = sdk;
const [address, ...words] = process.argv.slice(2);
const client = new Client(
  { name: "test", version: "1" },
  { capabilities: { elicitation: {} } },
);
client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { name: "Ada" } }));
let transport;
if (address.startsWith("http")) transport = new StreamableHTTPClientTransport(new URL(address));
else {
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  transport = new StdioClientTransport({ command: address, args: words });
}
await client.connect(transport);
const told = {
  tools: (await client.listTools()).tools.length,
  text: (await client.callTool({ name: "test_simple_text", arguments: {} })).content[0].text,
  resource: (await client.readResource({ uri: "test://template/7/data" })).contents[0].text,
  prompt: (await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } })).messages[0].content.text,
  completion: (await client.complete({ ref: { type: "ref/prompt", name: "test_prompt_with_arguments" }, argument: { name: "arg1", value: "par" } })).completion.values,
  asked: (await client.callTool({ name: "test_input_required_result_elicitation", arguments: {} })).content[0].text,
};
console.log(JSON.stringify(told));
await client.close();
