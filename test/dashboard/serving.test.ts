import assert from 'node:assert/strict'
import { request } from 'node:http'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { test } from 'vitest'
import { mounted, serving } from '../http/server/stage.ts'

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

/** Asks as it is written: `fetch` would tidy the path and unpack the body. */
function bare(
  url: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  method = 'GET',
): Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const asked = request({ hostname, port, path, method, headers, agent: false }, (reply) => {
      const chunks: Buffer[] = []
      reply.on('data', (chunk) => chunks.push(chunk))
      reply.on('end', () =>
        resolve({ status: reply.statusCode!, headers: reply.headers, body: Buffer.concat(chunks) }),
      )
      reply.on('error', reject)
    })
    asked.on('error', reject)
    asked.end()
  })
}

async function scriptOf(url: string): Promise<string> {
  const { body } = await bare(url, '/', html)
  return `/${/src="\.\/(assets\/[^"]+\.js)"/.exec(body.toString())![1]}`
}

test('clients that accept HTML get the page at any of its addresses, others get the answer of the API', async () => {
  await using stage = await serving()
  for (const path of ['/', '/jobs', '/job?id=1', '/no/such/place']) {
    const reply = await bare(stage.url, path, html)
    assert.equal(reply.status, 200, path)
    assert.equal(reply.headers['content-type'], 'text/html; charset=utf-8')
  }
  const root = await bare(stage.url, '/')
  assert.match(root.headers['content-type'] as string, /^application\/json/)
  assert.equal((await bare(stage.url, '/jobs')).status, 404)
})

test('a route of the API, and any path below /v1, never answers with the page', async () => {
  await using stage = await serving()
  for (const path of [
    '/livez',
    '/readyz',
    '/metrics',
    '/openapi.json',
    '/v1',
    '/v1/',
    '/v1/queues',
    '/v1/none',
  ]) {
    const { headers } = await bare(stage.url, path, html)
    assert.doesNotMatch(headers['content-type'] as string, /html/, path)
  }
  assert.equal((await bare(stage.url, '/jobs', html, 'POST')).status, 404)
})

test('the page allows nothing inline, no other host and no frame, and is revalidated each time', async () => {
  await using stage = await serving()
  const { headers, body } = await bare(stage.url, '/', html)
  const policy = headers['content-security-policy'] as string
  for (const rule of [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "frame-ancestors 'none'",
  ])
    assert.ok(policy.includes(rule), rule)
  assert.doesNotMatch(policy, /unsafe/)
  assert.equal(headers['x-content-type-options'], 'nosniff')
  assert.equal(headers['cache-control'], 'no-cache')
  assert.doesNotMatch(body.toString(), /<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=/)
  const again = await bare(stage.url, '/', { ...html, 'if-none-match': headers.etag as string })
  assert.deepEqual([again.status, again.body.length], [304, 0])
})

test('scripts are compressed, cached for ever, and the same for every request', async () => {
  await using stage = await serving()
  const path = await scriptOf(stage.url)
  const plain = await bare(stage.url, path)
  const br = await bare(stage.url, path, { 'accept-encoding': 'gzip, deflate, br' })
  const gzip = await bare(stage.url, path, { 'accept-encoding': 'gzip' })
  assert.equal(plain.headers['content-type'], 'text/javascript; charset=utf-8')
  assert.match(plain.headers['cache-control'] as string, /immutable/)
  assert.equal(br.headers['content-encoding'], 'br')
  assert.ok(brotliDecompressSync(br.body).equals(plain.body))
  assert.ok(gunzipSync(gzip.body).equals(plain.body))
  const head = await bare(stage.url, path, {}, 'HEAD')
  assert.deepEqual([head.status, head.body.length], [200, 0])
})

test("no path leads out of the dashboard's folder", async () => {
  await using stage = await serving()
  for (const path of [
    '/assets/../build.json',
    '/assets/..%2fbuild.json',
    '/assets/%2e%2e/%2e%2e/package.json',
    '/assets/../../../package.json',
    '/assets/',
    '/assets/none.js',
    '/assets//etc/passwd',
    '/assets/..\\build.json',
    '/build.json',
  ]) {
    const { status, headers } = await bare(stage.url, path, path === '/build.json' ? {} : html)
    assert.equal(status, 404, path)
    assert.match(headers['content-type'] as string, /problem\+json/)
  }
})

test('a page that is mounted below a path finds its files there', async () => {
  await using stage = await mounted({ trust: true, basePath: '/admin/queue' })
  const page = await stage.ask('GET', '/admin/queue/jobs', { headers: html })
  assert.equal(page.status, 200)
  assert.match(page.body, /<base href="\/admin\/queue\/"/)
  const script = /src="\.\/(assets\/[^"]+\.js)"/.exec(page.body)![1]
  assert.equal((await stage.ask('GET', `/admin/queue/${script}`)).status, 200)
})

test('a page behind a proxy that strips its path finds its files at any address', async () => {
  await using stage = await serving()
  for (const path of ['/', '/jobs', '/jobs/', '/no/such/place', '//elsewhere.example/x']) {
    const page = (await bare(stage.url, path, html)).body.toString()
    const base = /<base href="([^"]+)"/.exec(page)![1]!
    const shown = `https://example.com/box${path}`
    assert.equal(
      new URL('assets/a.js', new URL(base, shown)).href,
      'https://example.com/box/assets/a.js',
      path,
    )
  }
})

test('a page of another site may link to the dashboard, but not load its data', async () => {
  await using stage = await serving()
  const visit = { ...html, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
  assert.equal((await bare(stage.url, '/jobs', visit)).status, 200)
  const path = await scriptOf(stage.url)
  const load = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }
  assert.equal((await bare(stage.url, path, load)).status, 403)
})
