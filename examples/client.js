#!/usr/bin/env node
// Node without a library: files are all there is.
//
// Streams are read with createReadStream, since readFile believes the size that it saw first. Node
// reads files on four threads, and a read that waits holds one: a program with more commands at
// once sets UV_THREADPOOL_SIZE to two or three times as many, or none of them goes on.
'use strict';
const fs = require('fs');
const fsp = fs.promises;
const { pipeline } = require('stream/promises');
const { Readable } = require('stream');

const tree = process.env.HUTCH || '/run/hutch';

// Starts a command; its directory.
async function start(box, request) {
	const handle = await fsp.open(`${box}/exec/new`, 'r+');
	try {
		await handle.write(JSON.stringify(request)); // what is wrong with it is thrown here
		const { buffer, bytesRead } = await handle.read(Buffer.alloc(100), 0, 100, null);
		return `${box}/exec/${buffer.toString('utf8', 0, bytesRead).trim()}`;
	} finally {
		await handle.close();
	}
}

async function text(file) {
	const chunks = [];
	for await (const chunk of fs.createReadStream(file)) chunks.push(chunk);
	return Buffer.concat(chunks).toString(); // at once, so that no character is cut in two
}

// Runs a command to its end: { code, stdout, stderr, result }.
async function run(box, request, input = '') {
	const node = await start(box, request);
	const [, stdout, stderr] = await Promise.all([
		pipeline(Readable.from([input]), fs.createWriteStream(`${node}/stdin`)),
		text(`${node}/stdout`),
		text(`${node}/stderr`),
	]);
	const result = JSON.parse(await text(`${node}/result.json`));
	const code = Number(await text(`${node}/code`));
	await fsp.rmdir(node);
	return { code, stdout, stderr, result };
}

async function main() {
	const box = await fsp.mkdtemp(`${tree}/node-`); // a directory is a sandbox
	try {
		const upper = await run(box, { cmd: ['tr', 'a-z', 'A-Z'] }, 'hello from node\n');
		console.log(upper.stdout.trim());
		const { code, stderr } = await run(box, { cmd: 'cat; echo oops >&2; exit 3' });
		console.log(code, stderr.trim());
		const late = await run(box, { cmd: 'cat; sleep 100', timeout_s: 0.2 });
		console.log(late.code, late.result.reason);
		const long = 'ä'.repeat(1000000);
		const echo = await run(box, { cmd: ['cat'] }, long);
		console.log('2 MB there and back:', echo.stdout === long);
		await run(box, { cmd: [] }).catch((e) => console.log('refused:', e.code));
	} finally {
		await fsp.rmdir(box);
	}
}

main();
