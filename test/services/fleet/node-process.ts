/** A node in a separate process, until it is killed: prints a line when the server has accepted it. */
import { connectNode } from '../../../src/http/client/index.ts'

const [url, namespace, nodeId] = process.argv.slice(2) as [string, string, string]
const address = new URL('/v1/nodes/connect', url.replace(/^http/, 'ws'))
await connectNode(address.href, {
  ...{ namespace, nodeId, services: [{ name: 'build', slots: 1 }] },
  onTask: async () => undefined,
})
console.log('connected')
