import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Case, Trial } from '../../bench/case.ts'
import { allOf, atLeast, atLeastTimes, atMost, atMostTimes } from '../../bench/goal.ts'
import { type Outcome, reportTrial } from '../../bench/report.ts'
import { best, median, ratio, summarize } from '../../bench/summary.ts'
import { renderTable } from '../../bench/table.ts'

const rate: Case = {
  name: 'cycle',
  unit: 'M/s',
  better: 'higher',
  figure: 'rate',
  peers: ['fastq'],
  goal: atLeastTimes(1, 'fastq'),
}

function aTrial(cases: Case[], contestants: string[] = ['signalbox', 'fastq', 'limit']): Trial {
  return {
    name: 'cycle',
    cases,
    contestants: Object.fromEntries(contestants.map((name) => [name, () => ({})])),
  }
}

function rounds(...values: number[]): Outcome {
  return { rounds: values.map((value) => ({ rate: value, bytes: value })) }
}

test('the median is the middle, or the mean of the two in the middle', () => {
  assert.equal(median([9, 1, 3]), 3)
  assert.equal(median([4, 1, 3, 2]), 2.5)
  assert.throws(() => median([]), RangeError)
  assert.deepEqual(summarize([10, 2, 3]), { median: 3, min: 2, max: 10 })
})

test('a ratio above 1 means ahead, whether higher or lower values are better', () => {
  assert.equal(ratio(6, 3, 'higher'), 2)
  assert.equal(ratio(50, 100, 'lower'), 2)
  assert.equal(best([1, 3, 2], 'higher'), 3)
  assert.equal(best([1, 3, 2], 'lower'), 1)
  assert.equal(best([], 'lower'), undefined)
})

test('a goal reads as a sentence and decides on the medians', () => {
  const standing = { signalbox: 2, peers: { a: 1, b: 4 }, limit: 2.5, bestPeer: 4 }
  assert.equal(atLeastTimes(1.2, 'a').text, '>= 1.2 x a')
  assert.equal(atLeastTimes(2, 'a').holds(standing), true)
  assert.equal(atLeastTimes(2.1, 'a').holds(standing), false)
  assert.equal(atLeastTimes(0.7, 'limit').holds(standing), true)
  assert.equal(atMostTimes(0.5, 'best peer').holds(standing), true)
  assert.equal(atMostTimes(0.4, 'best peer').holds(standing), false)
  assert.equal(atLeastTimes(0, 'unknown').holds(standing), false, 'a rival that did not run is never beaten')
  assert.equal(atMost(2).holds(standing), true)
  assert.equal(atLeast(2.1).holds(standing), false)
  const both = allOf(atLeastTimes(1, 'a'), atLeastTimes(1, 'b', 'note'))
  assert.equal(both.text, '>= 1.0 x a and >= 1.0 x b (note)')
  assert.equal(both.holds(standing), false)
})

test('a case reports medians, ratios, goal and whether it is met', () => {
  const outcomes = new Map([
    ['signalbox', rounds(4, 6, 5)],
    ['fastq', rounds(2, 2.5, 3)],
    ['limit', rounds(10, 10, 10)],
  ])
  assert.deepEqual(reportTrial(aTrial([rate]), outcomes), [
    {
      name: 'cycle',
      unit: 'M/s',
      signalbox: 5,
      peers: { fastq: 2.5 },
      limit: 10,
      ratioToBestPeer: 2,
      ratioToLimit: 0.5,
      goal: '>= 1.0 x fastq',
      met: true,
      spread: { signalbox: [4, 6], fastq: [2, 3], limit: [10, 10] },
    },
  ])
})

test('one trial answers several cases, and lower values can be better', () => {
  const bytes: Case = {
    ...rate,
    name: 'bytes',
    unit: 'bytes/item',
    better: 'lower',
    figure: 'bytes',
    goal: atMost(4),
  }
  const outcomes = new Map([
    ['signalbox', rounds(5)],
    ['fastq', rounds(10)],
  ])
  const [first, second] = reportTrial(aTrial([rate, bytes], ['signalbox', 'fastq']), outcomes)
  assert.equal(first!.ratioToBestPeer, 0.5)
  assert.equal(first!.limit, null)
  assert.equal(second!.ratioToBestPeer, 2)
  assert.equal(second!.met, false)
})

test('a case without its peer, limit or figure is unmet and gives the reason', () => {
  const outcomes = new Map([
    ['signalbox', rounds(5)],
    ['fastq', { reason: 'Cannot find package "fastq"' }],
    ['limit', rounds(1)],
  ])
  const harmless = { ...rate, goal: atLeast(1) }
  const [report] = reportTrial(aTrial([harmless]), outcomes)
  assert.equal(report!.met, false)
  assert.equal(report!.reason, 'fastq: Cannot find package "fastq"')
  assert.equal(report!.peers.fastq, null)
  assert.equal(report!.ratioToBestPeer, null)
  assert.equal(report!.ratioToLimit, 5)

  const [unknown] = reportTrial(aTrial([{ ...harmless, peers: [], figure: 'p99' }]), outcomes)
  assert.equal(unknown!.signalbox, null)
  assert.match(unknown!.reason!, /signalbox: gave no figure "p99"/)
})

test('a figure that is not a finite number is no figure', () => {
  const outcomes = new Map([['signalbox', rounds(5, Number.NaN)]])
  const [report] = reportTrial(aTrial([{ ...rate, peers: [], goal: atLeast(1) }], ['signalbox']), outcomes)
  assert.equal(report!.met, false)
})

test('the table has one line per case, the reasons and the mark for constants', () => {
  const outcomes = new Map([
    ['signalbox', rounds(4, 5, 6)],
    ['fastq', { reason: 'gone' }],
    ['limit', rounds(123, 123, 123)],
  ])
  const text = renderTable(
    reportTrial(aTrial([{ ...rate, constants: { 'client-go': '2.4-4.2' } }]), outcomes),
  )
  const lines = text.split('\n')
  assert.match(lines[0]!, /^case +unit +signalbox +peers +to best peer +limit +to limit +goal +met$/)
  assert.match(
    lines[2]!,
    /^cycle +M\/s +5\.00 \[4\.00-6\.00\] +fastq -, client-go\* 2\.4-4\.2 +- +123 \[123-123\] +0\.04 x/,
  )
  assert.match(lines[2]!, /NO$/)
  assert.equal(lines[3], 'cycle: fastq: gone')
  assert.match(lines[4]!, /^\* a constant/)
})
