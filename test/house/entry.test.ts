import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'vitest'

/** Prints the URL of every module that Node loads while it imports the package, as a program of a user does. */
const program = `
  import { registerHooks } from 'node:module'
  const urls = []
  registerHooks({ load: (url, context, next) => (urls.push(url), next(url, context)) })
  await import('signalbox')
  console.log(JSON.stringify(urls))`

function loadedByImport(): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const flags = ['--conditions=source', '--input-type=module', '--eval', program]
    execFile(process.execPath, flags, { timeout: 20_000 }, (error, stdout) => {
      if (error) reject(error)
      else resolve(JSON.parse(stdout) as string[])
    })
  })
}

test('importing the package loads no engine, no driver, no server and no channel', {
  timeout: 25_000,
}, async () => {
  const urls = await loadedByImport()
  const packages = new Set(
    urls.flatMap((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? []),
  )
  // Croner has no dependencies; schedules are checked where they are made.
  assert.deepEqual([...packages], ['croner'])
  const sources = urls.flatMap((url) => /\/src\/(.+)$/.exec(url)?.[1] ?? [])
  assert.ok(sources.includes('open.ts'), 'the hook sees what is loaded')
  const heavy = sources.filter((path) => /^(storage|http|monitor|dispatch|access|cli)\//.test(path))
  assert.deepEqual(heavy, [])
})
