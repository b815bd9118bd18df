import assert from 'node:assert/strict'
import { test } from 'vitest'
import { parse } from 'yaml'
import { readSource } from '../house/sources.ts'

interface Job {
  readonly needs?: string
  readonly permissions?: Readonly<Record<string, string>>
  readonly 'timeout-minutes'?: number
  readonly steps: readonly {
    readonly uses?: string
    readonly run?: string
    readonly with?: Record<string, unknown>
  }[]
}

const text = await readSource('.github/workflows/release.yml')
const workflow = parse(text) as {
  readonly on: { readonly push: { readonly tags: readonly string[] } }
  readonly permissions: Readonly<Record<string, string>>
  readonly jobs: Readonly<Record<string, Job>>
}
const commandsOf = (job: string) => workflow.jobs[job]!.steps.flatMap(({ run }) => run ?? [])

test('a release is made only from a tag, after all steps of CI', () => {
  assert.deepEqual(Object.keys(workflow.on), ['push'])
  assert.deepEqual(Object.keys(workflow.on.push), ['tags'])
  assert.ok(commandsOf('verify').includes('bash .ci/run'))
  assert.match(
    commandsOf('verify').join('\n'),
    /GITHUB_REF_NAME" = "v\$\(node -p 'require\("\.\/package\.json"\)\.version'\)"/,
  )
  assert.equal(workflow.jobs.publish?.needs, 'verify')
})

test('a release has provenance, and publishes the tarball that was checked', () => {
  const commands = commandsOf('publish')
  const at = (pattern: RegExp) => commands.findIndex((command) => pattern.test(command))
  const order = [
    /^npm ci$/,
    /^npm pkg set .*repository\.url/,
    /^npm run build$/,
    /^npm run pack:check$/,
    /npm pack /,
    /^npm publish /,
  ]
  const places = order.map(at)
  assert.ok(!places.includes(-1), String(places))
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
  )
  assert.match(commands[at(/^npm publish/)]!, /^npm publish release\/signalbox-\*\.tgz --provenance /)
  assert.match(commands.join('\n'), /cp dist\/sbom\.cdx\.json release\//)
  assert.match(commands.join('\n'), /gh release create "\$GITHUB_REF_NAME" release\/\*/)
})

test('the release workflow has only the permissions it needs, and no long-lived secret', () => {
  assert.deepEqual(workflow.permissions, { contents: 'read' })
  assert.equal(workflow.jobs.verify?.permissions, undefined)
  assert.deepEqual(workflow.jobs.publish?.permissions, { contents: 'write', 'id-token': 'write' })
  assert.ok(!/secrets\./.test(text))
  for (const [name, { steps, 'timeout-minutes': timeout }] of Object.entries(workflow.jobs)) {
    assert.ok(timeout, `${name} may not hang for hours`)
    for (const { uses, with: options } of steps) {
      if (uses === undefined) continue
      assert.match(uses, /^actions\/[\w-]+@(v\d+|[0-9a-f]{40})$/, uses)
      if (uses.startsWith('actions/checkout@')) assert.equal(options?.['persist-credentials'], false)
    }
  }
})

test('the security policy explains how to report, and what a release contains', async () => {
  const policy = await readSource('SECURITY.md')
  assert.match(policy, /private vulnerability reporting/)
  assert.match(policy, /## Supported versions/)
  assert.ok(!/[\w.]+@[\w-]+\.\w+/.test(policy))
  for (const word of ['dist/sbom.cdx.json', 'provenance', 'npm audit signatures'])
    assert.ok(policy.includes(word), word)
})
