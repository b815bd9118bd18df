#!/usr/bin/env node
// This file imports nothing before it has looked at the Node that runs it: the rest of Signalbox may not even parse
// on an older one, and a syntax error would hide the reason.
const neededMajor = 24

if (Number.parseInt(process.versions.node, 10) < neededMajor) {
  process.stderr.write(
    `signalbox: it needs Node ${neededMajor} or newer, and this is Node ${process.versions.node}.\n`,
  )
  process.exitCode = 1
} else {
  const { run } = await import('./run.ts')
  process.exitCode = await run(process.argv.slice(2))
}

export {}
