import assert from 'node:assert/strict'
import { test } from 'vitest'
import { readCron } from './cron-idea.ts'

test('common cron lines are described in words', () => {
  assert.deepEqual(readCron('* * * * *'), { key: 'everyMinute' })
  assert.deepEqual(readCron('*/15 * * * *'), { key: 'everyMinutes', count: 15 })
  assert.deepEqual(readCron('5 * * * *'), { key: 'everyHour', minute: '05' })
  assert.deepEqual(readCron('0 30 2 * * *'), { key: 'everyDay', time: '02:30' })
  assert.deepEqual(readCron('0 9 * * MON-FRI'), {
    key: 'onWeekdays',
    days: [1, 2, 3, 4, 5],
    time: '09:00',
  })
  assert.deepEqual(readCron('0 9 * * 6-7,3'), { key: 'onWeekdays', days: [6, 0, 3], time: '09:00' })
  assert.deepEqual(readCron('0 6 1 * *'), { key: 'everyMonth', day: 1, time: '06:00' })
})

test('a more complex cron line gets no description, because it could be wrong', () => {
  const lines = [
    '*/7 * * * *',
    '30 0 9 * * *',
    '0 9 1 * 1',
    '0 9 * 1 *',
    '0 9,17 * * *',
    '0 9 * * 2#1',
    '0 9 * * +1',
    '0 9 L * *',
    '0 9 * * 5-2',
    '@daily',
    '',
  ]
  for (const line of lines) assert.equal(readCron(line), null, line)
})
