import assert from 'node:assert/strict'
import { open, type RemoteUrl } from 'signalbox'
import { connectNode } from 'signalbox/client'

/** The secret of these examples. A real one is as `openssl rand -hex 32` prints it, and comes from the environment. */
export const secret = 'an-example-of-thirty-two-characters'

export interface Tour {
  /** Where Signalbox is mounted, with its base path. */
  readonly url: string
  /** What else the app wants to see, such as a session. @default nothing */
  readonly headers?: Readonly<Record<string, string>>
  /** Who comes without what the app or Signalbox wants gets this. @default 401 */
  readonly refused?: number
  /** Whether nodes can connect. @default true */
  readonly nodes?: boolean
}

/** Looks at a mounted Signalbox as its users do: the page, a job from end to end, a stream, a node. */
export async function tour({ url, headers = {}, refused = 401, nodes = true }: Tour): Promise<void> {
  const own = { authorization: `Bearer ${secret}`, ...headers }
  assert.equal((await fetch(`${url}/v1/queues`)).status, refused, 'a request without a token is refused')

  const page = await fetch(url, { headers: { ...headers, accept: 'text/html' } })
  if (page.headers.get('content-type')?.startsWith('text/html'))
    assert.match(
      await page.text(),
      new RegExp(`<base href="${new URL(url).pathname}/"`),
      'the dashboard’s page',
    )
  else console.log('The dashboard is not built: npm run build')

  const added = await fetch(`${url}/v1/jobs`, {
    method: 'POST',
    headers: { ...own, 'content-type': 'application/json' },
    body: JSON.stringify({ kind: 'greet', payload: { name: 'Ada' } }),
  })
  assert.equal(added.status, 201)
  await theQueue(`${url}/v1/events`, own)
  // That its reader has gone is told to Signalbox, through whatever the app is made of.
  while (!/^signalbox_streams_open 0$/m.test(await (await fetch(`${url}/metrics`, { headers: own })).text()));

  // The client has no place for an app's own headers, and needs none where tokens are what counts.
  if (Object.keys(headers).length === 0) await doTheJob(url)
  if (nodes) await joinAsNode(url)
  console.log(
    `${url}: ${nodes ? 'page, job, stream and node' : 'page, job and stream'} are as they should be`,
  )
}

/** A stream shows what is there as soon as it is opened, though it never ends by itself. */
async function theQueue(url: string, headers: Readonly<Record<string, string>>): Promise<void> {
  const enough = new AbortController()
  const { body } = await fetch(url, { headers, signal: enough.signal })
  let text = ''
  for await (const chunk of body!) {
    text += Buffer.from(chunk).toString()
    if (text.includes('event: queues')) break
  }
  enough.abort()
  assert.match(text, /"ready":1/)
}

async function doTheJob(url: string): Promise<void> {
  await using box = await open(url as RemoteUrl, { token: secret })
  const [job] = await box.jobs.claim()
  assert.deepEqual(job?.payload, { name: 'Ada' })
  await box.jobs.ack(job)
}

async function joinAsNode(url: string): Promise<void> {
  await using node = await connectNode(url.replace(/^http/, 'ws'), {
    ...{ nodeId: 'node-1', token: secret },
    services: [{ name: 'greet', slots: 1 }],
    onTask: ({ payload }) => `Hello, ${payload}`,
  })
  assert.equal(node.status, 'connected')
}
