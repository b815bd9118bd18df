import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { NestFactory as Nest } from '@nestjs/core'
import type { RequestHandler } from 'express'
import { open } from 'signalbox'
import { createHandler as create, type FetchHandler } from 'signalbox/server'
import 'reflect-metadata'
import { Module } from '@nestjs/common'
import { check, replace } from '../../prelude.ts'

export { default as express } from 'express'
export { fastify } from 'fastify'
export { Hono } from 'hono'

export const operatorsOnly: RequestHandler = (_request, _response, next) => next()
export class AppModule {}
Module({})(AppModule)
/** Without its log. */
export const NestFactory: { create(module: typeof AppModule): ReturnType<typeof Nest.create> } = {
  create: (module: typeof AppModule) => Nest.create(module, { logger: false }),
}

/** As the first block makes it. */
export const signalbox: FetchHandler = create({ box: await open('memory:'), basePath: '/signalbox' })

replace('app.listen(3000)', "app.listen(0, '127.0.0.1')")

async function answersBelow(server: Server): Promise<void> {
  if (!server.listening) await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  assert.equal((await fetch(`${url}/signalbox/livez`)).status, 200)
  assert.equal((await fetch(`${url}/signalbox/v1/jobs`)).status, 401)
  assert.equal((await fetch(`${url}/livez`)).status, 404)
  assert.equal(server.listenerCount('upgrade'), 1)
}

check('In your own app', async ({ values: { signalbox: made } }) => {
  const { status } = await made(new Request('http://app.example/signalbox/livez'))
  assert.equal(status, 200)
})
check('Express', ({ values: { server } }) => answersBelow(server))
check('NestJS', async ({ values: { app } }) => {
  await app.listen(0, '127.0.0.1')
  await answersBelow(app.getHttpServer())
})
check('Fastify', async ({ values: { app } }) => {
  await app.listen({ port: 0, host: '127.0.0.1' })
  await answersBelow(app.server)
})
check('Hono', async ({ values: { app } }) => {
  assert.equal((await app.request('http://app.example/signalbox/livez')).status, 200)
  assert.equal((await app.request('http://app.example/livez')).status, 404)
})
check('Next.js', ({ data }) => assert.match(data, /serverExternalPackages: \['signalbox'/))
