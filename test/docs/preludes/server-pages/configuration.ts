import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { check } from '../../prelude.ts'

const main = join(import.meta.dirname, '../../../../src/cli/main.ts')

/** What a server started in this folder would run with. */
function printed(): Record<string, { value: unknown; source: string }> {
  const text = execFileSync(process.execPath, [main, 'config', 'print', '--json'], { encoding: 'utf8' })
  return JSON.parse(text).settings
}

check('Configuration', () => {
  const { database, retention, allowedHosts } = printed()
  assert.match(database!.source, /signalbox\.config\.ts/)
  assert.deepEqual(
    [database!.value, retention!.value, allowedHosts!.value],
    ['postgres://localhost/shop', '30d', ['jobs.example.com']],
  )
  rmSync('signalbox.config.ts')
})

check('Configuration #2', () => {
  const { retention, monitorDistributedLockTtl, dispatchHeartbeat } = printed()
  assert.deepEqual(retention, { value: '30d', source: 'signalbox.config.yaml:2:1: retention' })
  assert.equal(monitorDistributedLockTtl!.source, 'signalbox.config.yaml:6:5: monitor.distributed.lock_ttl')
  assert.equal(dispatchHeartbeat!.value, '5s')
  rmSync('signalbox.config.yaml')
})

check('Configuration #3', () => {
  const settings = printed()
  const fromFile = Object.values(settings).filter(({ source }) => source.startsWith('signalbox.config.json'))
  assert.equal(fromFile.length, 9)
  assert.deepEqual([settings.onceWhenDown!.value, settings.allowPrivate!.value], ['closed', ['10.1.0.0/16']])
  rmSync('signalbox.config.json')
})
