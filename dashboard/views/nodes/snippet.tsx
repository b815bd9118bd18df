import type { ReactNode } from 'react'
import { Code } from '../../kit/text/json.tsx'
import { namespaceToName, useSignedIn } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { nodesWords } from '../../words/nodes.ts'

/** What connects a node to this very server, to copy. */
export function NodeSnippet(): ReactNode {
  const say = useWords(nodesWords)
  const { me, hasToken } = useSignedIn()
  const namespace = namespaceToName(me)
  const url = new URL('v1/nodes/connect', document.baseURI)
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
  const lines = [
    `import { connectNode } from 'signalbox/client'`,
    '',
    `await connectNode('${url.href}', {`,
    `  nodeId: 'gpu-1',`,
    ...(hasToken ? [`  token: process.env.SIGNALBOX_TOKEN,`] : []),
    ...(namespace === undefined ? [] : [`  namespace: ${JSON.stringify(namespace)},`]),
    `  services: [{ name: 'asr', slots: 2 }],`,
    `  labels: { region: 'eu' },`,
    `  onTask: async (task, { progress }) => {`,
    `    progress(50, 'half way')`,
    `    return { heard: task.payload }`,
    `  },`,
    `})`,
  ]
  return (
    <div className="nodes-snippet">
      <Code text={lines.join('\n')} label={say('snippet')} />
    </div>
  )
}
